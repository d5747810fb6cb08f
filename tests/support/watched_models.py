"""A folder with one model, `half`, and a repository that watches it."""

import shutil
from pathlib import Path
from typing import Any

from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.repository.local_repository import LocalRepository
from dogsnap.serving.repository.model import State
from dogsnap.serving.repository.switcher import Switcher
from dogsnap.serving.versions.model_configs import ModelConfig, ModelFolders
from google.protobuf import text_format


class WatchedModels:
    """Every version is a copy of `made`. `config_text` is part of each model's configuration."""

    config_text = ""

    def __init__(self, made: Path, models: Path, retry_seconds: float = 1e9, **options: Any):
        self.made, self.models = made, models
        (models / "half").mkdir(parents=True, exist_ok=True)
        self.repository = LocalRepository(self._configs, **options)
        self.repository.retry_seconds = retry_seconds
        self.switcher = Switcher(self.repository)

    def _configs(self) -> list[ModelConfig]:
        configs = ModelFolders(self.models)()
        for config in configs:
            text_format.Merge(self.config_text, config)
        return configs

    def put(self, *names: str | int) -> Path:
        """Copy versions of these names there; returns the folder of the last one."""
        return [
            Path(shutil.copytree(self.made, self.models / "half" / str(name))) for name in names
        ][-1]

    def remove(self, name: str | int) -> None:
        shutil.rmtree(self.models / "half" / str(name))

    def scan(self, *, trust: bool = True) -> None:
        self.repository.scan(skip_settling=trust)

    def with_versions(self, *numbers: int) -> None:
        """Put these versions there, and nothing else, and scan."""
        for folder in self.models.glob("half/*"):
            shutil.rmtree(folder)
        self.put(*numbers)
        self.scan()

    def answers(self, version: int | None = None, label: str | None = None, key: str = "") -> int:
        with self.repository.acquire(ModelSpec("half", version, label, key)) as servable:
            return servable.id.version

    def computes(self) -> float:
        """What version 1 makes of 0."""
        with self.repository.acquire(ModelSpec("half", 1)) as servable:
            return float(servable.run(servable.signature(), {"x": 0.0})["y"])

    def states(self) -> dict[int, State]:
        """By version, the largest first."""
        return {each.version: each.state for each in self.repository.status(ModelSpec("half"))}
