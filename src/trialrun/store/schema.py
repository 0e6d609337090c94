"""The tables of `study.db`, and their growth from version to version. A migration is never edited once applied.

`fact` and `text` are the truth; `trial` follows from `fact` and can be rebuilt at any time. `inbox` and `live` are how
processes talk about a study while it runs. The version stands in the pragma `user_version`; `application_id` tells a
study from any other SQLite file.
"""

FILE = "study.db"
APPLICATION_ID = 0x54524C52  # "TRLR"

_FIRST = """
-- What happened, in the order in which it happened. `body` is the fact as JSON; `crc` guards the whole row.
CREATE TABLE fact (
    seq INTEGER PRIMARY KEY,
    trial TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    crc INTEGER NOT NULL
);
CREATE INDEX fact_by_trial ON fact (trial, kind);

-- Every text once, under its hash: utterances, prompts, raw replies, artefacts.
CREATE TABLE text (
    hash BLOB NOT NULL UNIQUE,
    body BLOB NOT NULL
);

-- Where each trial stands: the fold of its facts. Money is in pico-USD, so that sums are exact.
-- `lags` is 1 while facts may be ahead of the row; whoever reads such a row folds the facts instead.
CREATE TABLE trial (
    id TEXT NOT NULL UNIQUE,
    condition TEXT NOT NULL,
    status TEXT NOT NULL,
    lags INTEGER NOT NULL,
    forked_from TEXT NOT NULL,
    replicate INTEGER NOT NULL,
    block INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    actual INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    spent INTEGER NOT NULL,
    held INTEGER NOT NULL,
    unknown_costs INTEGER NOT NULL,
    doubts INTEGER NOT NULL,
    started_at REAL,
    ended_at REAL,
    spec TEXT NOT NULL,
    reason TEXT NOT NULL,
    boundary TEXT NOT NULL,
    waiting_for TEXT NOT NULL,
    end_reason TEXT NOT NULL,
    levels BLOB NOT NULL,
    outcome BLOB NOT NULL,
    exact BLOB NOT NULL
);
CREATE INDEX trial_in_order ON trial (planned, id);
CREATE INDEX trial_sums ON trial (
    condition, status, forked_from, spent, held, unknown_costs, doubts, calls, tokens_in, tokens_out
);
CREATE INDEX trial_by_status ON trial (status);
CREATE INDEX trial_lags ON trial (lags) WHERE lags;

-- Wishes of other processes: stop, an answer to a human question.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    at REAL NOT NULL,
    taken_at REAL,
    answer TEXT
);
CREATE INDEX inbox_open ON inbox (id) WHERE taken_at IS NULL;

-- Where the running process stands, in its own words.
CREATE TABLE live (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at REAL NOT NULL,
    body BLOB NOT NULL
);

-- Rows of `fact` that could not be read and were set aside.
CREATE TABLE quarantine (
    seq INTEGER PRIMARY KEY,
    trial TEXT NOT NULL,
    at REAL,
    kind TEXT,
    body BLOB,
    crc INTEGER,
    set_aside_at REAL NOT NULL
);
"""

# Trials that rate other trials: which judging pass they belong to. They are in no sum by condition.
_JUDGING = """
ALTER TABLE trial ADD COLUMN judging TEXT NOT NULL DEFAULT '';
DROP INDEX trial_sums;
CREATE INDEX trial_sums ON trial (
    condition, status, forked_from, judging, spent, held, unknown_costs, doubts, calls, tokens_in, tokens_out
);
CREATE INDEX trial_by_judging ON trial (judging, planned, id) WHERE judging <> '';
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _JUDGING)
VERSION = len(MIGRATIONS)
