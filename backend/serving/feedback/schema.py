"""The tables of the file of feedback, and how a file of an earlier format gets them."""

import sqlite3

from backend.errors import FailedPrecondition

FORMAT = 3  # PRAGMA user_version of a file with these tables
COLUMNS = (
    *("request_id", "answered_at", "model", "version", "split", "asked", "level", "breeds", "probability"),
    *("verdict", "breed", "is_right", "holds", "text"),
)
# What equal rows of feedback have in common: a report reads their sums in place of a million rows.
KIND = "model, version, level, size, first, verdict, breed, is_right, holds"
KIND_OF = """{0}.model, {0}.version, {0}.level, json_array_length({0}.breeds),
    ifnull(json_extract({0}.breeds, '$[0]'), {0}.level), {0}.verdict, ifnull({0}.breed, ''), ifnull({0}.is_right, -1),
    ifnull({0}.holds, -1)"""
TABLES = (
    """CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER,
    text TEXT)""",
    "CREATE INDEX by_text ON feedback (model, text COLLATE NOCASE) WHERE text IS NOT NULL",
    "CREATE INDEX by_time ON feedback (answered_at)",
    f"CREATE TABLE sums ({KIND}, answers, PRIMARY KEY ({KIND})) WITHOUT ROWID",
    f"""CREATE TRIGGER added AFTER INSERT ON feedback BEGIN
    INSERT INTO sums VALUES ({KIND_OF.format("new")}, 1) ON CONFLICT DO UPDATE SET answers = answers + 1; END""",
    f"""CREATE TRIGGER removed AFTER DELETE ON feedback BEGIN
    UPDATE sums SET answers = answers - 1 WHERE ({KIND}) = ({KIND_OF.format("old")}); END""",
    # A split's tally outlasts the rows that it counts; its salt is deleted when it ends.
    """CREATE TABLE splits (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, label TEXT NOT NULL,
    first INTEGER NOT NULL, second INTEGER NOT NULL, share REAL NOT NULL, started TEXT NOT NULL, ended TEXT, salt BLOB,
    tally TEXT NOT NULL)""",
    """CREATE TABLE phones (split INTEGER, phone TEXT, version INTEGER, has_voted INTEGER DEFAULT 0,
    PRIMARY KEY (split, phone)) WITHOUT ROWID""",
)
# The first format joined ids by spaces, judged groups and sets as a whole, and kept of a split only that there was one.
MOVE = (
    "ALTER TABLE feedback RENAME TO of_format_1",
    *TABLES,
    """INSERT INTO feedback SELECT number, request_id, answered_at, model, version, 0, 0, level,
    CASE WHEN breeds = '' THEN '[]' WHEN level IN ('group', 'set') THEN '["' || replace(breeds, ' ', '", "') || '"]'
    ELSE json_array(breeds) END, probability, verdict, breed, CASE WHEN level IN ('group', 'set') AND is_right THEN NULL
    WHEN level = 'unknown' AND is_right IS NOT NULL THEN breed IS breeds ELSE is_right END, is_right, NULL FROM of_format_1""",
    "DROP TABLE of_format_1",
)
# The second format had other names in the tallies of splits.
RENAME = (
    """UPDATE splits SET tally = json_remove(json_set(tally, '$.counted', json_extract(tally, '$.judged')), '$.judged',
    '$.right_in_blocks', '$.votes_in_blocks')""",
)


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an open transaction, or move a file of an earlier format to them.

    Raises FailedPrecondition for a file of a later format.
    """
    ((found,),) = connection.execute("PRAGMA user_version").fetchall()
    statements = {0: TABLES, 1: MOVE, 2: RENAME, FORMAT: ()}.get(found)
    if statements is None:
        raise FailedPrecondition(
            f"the file has feedback of format {found}; this version writes {FORMAT}: choose another file"
        )
    for statement in statements:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={FORMAT}")
