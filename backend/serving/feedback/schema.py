"""The tables of the file of feedback, and how a file of an earlier format gets them."""

import json
import sqlite3

FORMAT = 3  # PRAGMA user_version of a file with these tables
COLUMNS = (
    *("request_id", "answered_at", "model", "version", "split", "asked", "level", "breeds", "probability"),
    *("verdict", "breed", "is_right", "holds", "text"),
)
# Triggers keep the sums, so that a report reads some hundred rows of a million. Sums of votes outlast the rows they are of.
TABLES = """
CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER,
    text TEXT);
CREATE INDEX by_time ON feedback (answered_at);
CREATE INDEX by_text ON feedback (model, text COLLATE NOCASE) WHERE text IS NOT NULL;
CREATE TABLE totals (model, version, level, size, verdict, is_right, holds, answers,
    PRIMARY KEY (model, version, level, size, verdict, is_right, holds)) WITHOUT ROWID;
CREATE TABLE corrections (model, version, answered, said, times, PRIMARY KEY (model, version, answered, said)) WITHOUT ROWID;
CREATE INDEX by_times ON corrections (model, version, times);
CREATE TRIGGER added AFTER INSERT ON feedback BEGIN
    INSERT INTO totals VALUES (new.model, new.version, new.level, json_array_length(new.breeds), new.verdict,
        ifnull(new.is_right, -1), ifnull(new.holds, -1), 1) ON CONFLICT DO UPDATE SET answers = answers + 1;
    INSERT INTO corrections SELECT new.model, new.version, ifnull(json_extract(new.breeds, '$[0]'), new.level),
        ifnull(new.breed, new.verdict), 1 WHERE new.is_right = 0 ON CONFLICT DO UPDATE SET times = times + 1;
END;
CREATE TRIGGER removed AFTER DELETE ON feedback BEGIN
    UPDATE totals SET answers = answers - 1 WHERE (model, version, level, size, verdict, is_right, holds) = (old.model,
        old.version, old.level, json_array_length(old.breeds), old.verdict, ifnull(old.is_right, -1), ifnull(old.holds, -1));
    UPDATE corrections SET times = times - 1 WHERE old.is_right = 0 AND (model, version, answered, said) = (old.model,
        old.version, ifnull(json_extract(old.breeds, '$[0]'), old.level), ifnull(old.breed, old.verdict));
END;
CREATE TABLE splits (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, label TEXT NOT NULL, first INTEGER NOT NULL,
    second INTEGER NOT NULL, share REAL NOT NULL, started TEXT NOT NULL, ended TEXT, salt BLOB, test TEXT NOT NULL,
    asked_first INTEGER DEFAULT 0, asked_second INTEGER DEFAULT 0, answered_first INTEGER DEFAULT 0,
    answered_second INTEGER DEFAULT 0, judged_first INTEGER DEFAULT 0, judged_second INTEGER DEFAULT 0,
    right_first INTEGER DEFAULT 0, right_second INTEGER DEFAULT 0);
CREATE TABLE phones (split INTEGER, phone TEXT, version INTEGER, has_voted INTEGER DEFAULT 0, PRIMARY KEY (split, phone))
    WITHOUT ROWID;
"""
# The first format joined ids by spaces, judged groups and sets as a whole, and kept of a split only that there was one.
MOVE = """
INSERT INTO feedback SELECT number, request_id, answered_at, model, version, 0, 0, level, ids(level, breeds), probability,
    verdict, breed, CASE WHEN level IN ('group', 'set') AND is_right THEN NULL WHEN level = 'unknown' THEN
    CASE WHEN is_right IS NULL THEN NULL ELSE breed IS breeds END ELSE is_right END, is_right, NULL FROM of_format_1;
DROP TABLE of_format_1;
"""
# The second format had no words of users.
WORDS = """
ALTER TABLE feedback ADD COLUMN text TEXT;
CREATE INDEX by_text ON feedback (model, text COLLATE NOCASE) WHERE text IS NOT NULL;
"""


def prepare(connection: sqlite3.Connection) -> int:
    """Make the tables in an open transaction, or move a file of an earlier format to them; returns the format found."""
    ((found,),) = connection.execute("PRAGMA user_version").fetchall()
    if found < FORMAT:
        connection.create_function("ids", 2, _ids)
        move = f"ALTER TABLE feedback RENAME TO of_format_1; {TABLES} {MOVE}"
        script = (TABLES, move, WORDS)[found]
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""
        connection.execute(f"PRAGMA user_version={FORMAT}")
    return found


def _ids(level: str, breeds: str) -> str:
    return json.dumps(breeds.split() if level in ("group", "set") else [breeds] * bool(breeds))
