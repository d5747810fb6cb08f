"""The tables of the file of feedback, and how a file of an earlier format gets them."""

import sqlite3

from backend.errors import FailedPrecondition

FORMAT = 3  # PRAGMA user_version of a file with these tables
COLUMNS = (
    *("request_id", "answered_at", "model", "version", "split", "asked", "level", "breeds", "probability"),
    *("verdict", "breed", "is_right", "holds"),
)
# What equal rows of feedback have in common, from a row: a report reads their sums in place of a million rows.
KIND = {
    "model": "{}.model",
    "version": "{}.version",
    "level": "{}.level",
    "size": "json_array_length({}.breeds)",
    "first": "ifnull(json_extract({0}.breeds, '$[0]'), {0}.level)",
    "verdict": "{}.verdict",
    "breed": "ifnull({}.breed, '')",
    "is_right": "ifnull({}.is_right, -1)",
    "holds": "ifnull({}.holds, -1)",
}
NEW, OLD = (", ".join(each.format(row) for each in KIND.values()) for row in ("new", "old"))
SUMS = (
    f"CREATE TABLE sums ({', '.join(KIND)}, answers, PRIMARY KEY ({', '.join(KIND)})) WITHOUT ROWID",
    f"""CREATE TRIGGER added AFTER INSERT ON feedback BEGIN
    INSERT INTO sums VALUES ({NEW}, 1) ON CONFLICT DO UPDATE SET answers = answers + 1; END""",
    f"""CREATE TRIGGER removed AFTER DELETE ON feedback BEGIN
    UPDATE sums SET answers = answers - 1 WHERE ({", ".join(KIND)}) = ({OLD}); END""",
)
# A split's tally outlasts the rows that it counts; its salt is deleted when it ends.
SPLITS = """CREATE TABLE splits (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, label TEXT NOT NULL,
    first INTEGER NOT NULL, second INTEGER NOT NULL, share REAL NOT NULL, started TEXT NOT NULL, ended TEXT, salt BLOB,
    tally TEXT NOT NULL)"""
TABLES = (
    """CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER)""",
    "CREATE INDEX by_time ON feedback (answered_at)",
    *SUMS,
    SPLITS,
    """CREATE TABLE phones (split INTEGER, phone TEXT, version INTEGER, has_voted INTEGER DEFAULT 0,
    PRIMARY KEY (split, phone)) WITHOUT ROWID""",
)
# The first format joined ids by spaces, judged groups and sets as a whole, and kept of a split only that there was one.
MOVE = (
    """INSERT INTO feedback SELECT number, request_id, answered_at, model, version, 0, 0, level,
    CASE WHEN breeds = '' THEN '[]' WHEN level IN ('group', 'set') THEN '["' || replace(breeds, ' ', '", "') || '"]'
    ELSE json_array(breeds) END, probability, verdict, breed, CASE WHEN level IN ('group', 'set') AND is_right THEN NULL
    WHEN level = 'unknown' AND is_right IS NOT NULL THEN breed IS breeds ELSE is_right END, is_right FROM of_format_1""",
    "DROP TABLE of_format_1",
)
# The second format had two tables of sums, and a column for each part of a tally.
PARTS = {each: f"json_array({each}_first, {each}_second)" for each in ("asked", "answered", "judged", "right")}
PARTS |= {
    each: f"json_extract(test, '$.{each.removesuffix('_in_blocks')}')"
    for each in ("block", "waiting", "logs", "better", "decided_at", "right_in_blocks", "votes_in_blocks")
}
TALLY = ", ".join(f"'{name}', {value}" for name, value in PARTS.items())
MOVE_2 = (
    *(f"DROP {each}" for each in ("TRIGGER added", "TRIGGER removed", "TABLE totals", "TABLE corrections")),
    *SUMS,
    f"INSERT INTO sums SELECT *, count(*) FROM (SELECT {OLD.replace('old.', 'feedback.')} FROM feedback) "
    f"GROUP BY {', '.join(str(place + 1) for place in range(len(KIND)))}",
    "ALTER TABLE splits RENAME TO of_format_2",
    SPLITS,
    "INSERT INTO splits SELECT id, model, label, first, second, share, started, ended, salt, "
    f"json_object({TALLY}) FROM of_format_2",
    "DROP TABLE of_format_2",
)


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an open transaction, or move a file of an earlier format to them.

    Raises FailedPrecondition for a file of a later format.
    """
    ((found,),) = connection.execute("PRAGMA user_version").fetchall()
    if found > FORMAT:
        raise FailedPrecondition(
            f"the file has feedback of format {found}; this version writes {FORMAT}: choose another file"
        )
    rename = "ALTER TABLE feedback RENAME TO of_format_1"
    for statement in {0: TABLES, 1: (rename, *TABLES, *MOVE), 2: MOVE_2, FORMAT: ()}[found]:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={FORMAT}")
