PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER,
    text TEXT, voter TEXT UNIQUE, block INTEGER);
INSERT INTO "feedback" VALUES(1,'0','2099-01-01T12:00:00Z','inception_v3',2,1,1,'breed','["c1"]',0.9,'breed','c2',0,0,NULL,'2-0',0);
INSERT INTO "feedback" VALUES(2,'1','2099-01-01T12:00:00Z','inception_v3',3,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'3-1',0);
INSERT INTO "feedback" VALUES(3,'2','2099-01-01T12:00:00Z','inception_v3',2,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'2-2',0);
INSERT INTO "feedback" VALUES(4,'3','2099-01-01T12:00:00Z','inception_v3',3,1,1,'breed','["c1"]',0.9,'breed','c2',0,0,NULL,'3-3',0);
INSERT INTO "feedback" VALUES(5,'4','2099-01-01T12:00:00Z','inception_v3',2,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'2-4',0);
INSERT INTO "feedback" VALUES(6,'5','2099-01-01T12:00:00Z','inception_v3',3,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'3-5',0);
INSERT INTO "feedback" VALUES(7,'6','2099-01-01T12:00:00Z','inception_v3',2,1,1,'breed','["c1"]',0.9,'breed','c2',0,0,NULL,'2-6',0);
INSERT INTO "feedback" VALUES(8,'7','2099-01-01T12:00:00Z','inception_v3',3,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'3-7',0);
INSERT INTO "feedback" VALUES(9,'8','2099-01-01T12:00:00Z','inception_v3',2,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'2-8',0);
INSERT INTO "feedback" VALUES(10,'9','2099-01-01T12:00:00Z','inception_v3',3,1,1,'breed','["c1"]',0.9,'breed','c2',0,0,NULL,'3-9',0);
INSERT INTO "feedback" VALUES(11,'10','2099-01-01T12:00:00Z','inception_v3',2,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'2-10',0);
INSERT INTO "feedback" VALUES(12,'11','2099-01-01T12:00:00Z','inception_v3',3,1,1,'breed','["c1"]',0.9,'right',NULL,1,1,NULL,'3-11',0);
INSERT INTO "feedback" VALUES(13,'100','2099-01-01T12:00:00Z','inception_v3',2,0,0,'breed','["c1"]',0.9,'other',NULL,NULL,NULL,'shiba inu',NULL,NULL);
CREATE TABLE followed (owner TEXT PRIMARY KEY, revision INTEGER NOT NULL, at TEXT NOT NULL);
INSERT INTO "followed" VALUES('owner',7,'2026-11-27T14:08:25Z');
CREATE TABLE phones (split INTEGER, phone TEXT, version INTEGER, vote TEXT,
    PRIMARY KEY (split, phone)) WITHOUT ROWID;
INSERT INTO "phones" VALUES(1,'0',2,'0');
INSERT INTO "phones" VALUES(1,'1',3,'1');
INSERT INTO "phones" VALUES(1,'10',2,'10');
INSERT INTO "phones" VALUES(1,'11',3,'11');
INSERT INTO "phones" VALUES(1,'2',2,'2');
INSERT INTO "phones" VALUES(1,'3',3,'3');
INSERT INTO "phones" VALUES(1,'4',2,'4');
INSERT INTO "phones" VALUES(1,'5',3,'5');
INSERT INTO "phones" VALUES(1,'6',2,'6');
INSERT INTO "phones" VALUES(1,'7',3,'7');
INSERT INTO "phones" VALUES(1,'8',2,'8');
INSERT INTO "phones" VALUES(1,'9',3,'9');
CREATE TABLE splits (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, label TEXT NOT NULL,
    first INTEGER NOT NULL, second INTEGER NOT NULL, started TEXT NOT NULL, ended TEXT, salt BLOB,
    tally TEXT NOT NULL, owner TEXT NOT NULL);
INSERT INTO "splits" VALUES(1,'inception_v3','',3,2,'2026-11-27T14:08:25Z',NULL,X'BDFECEA310C48BBB12E803C7DC18B0F4','{"asked": [6, 6], "answered": [6, 6], "counted": [6, 6], "right": [4, 4], "better": null, "blocks": [{"right": [4, 4], "counted": [6, 6]}], "logs": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]}','owner');
CREATE TABLE sums (model, version, is_vote, level, size, first, verdict, breed, is_right, holds, answers, PRIMARY KEY (model, version, is_vote, level, size, first, verdict, breed, is_right, holds)) WITHOUT ROWID;
INSERT INTO "sums" VALUES('inception_v3',2,0,'breed',1,'c1','other','',-1,-1,1);
INSERT INTO "sums" VALUES('inception_v3',2,1,'breed',1,'c1','breed','c2',0,0,2);
INSERT INTO "sums" VALUES('inception_v3',2,1,'breed',1,'c1','right','',1,1,4);
INSERT INTO "sums" VALUES('inception_v3',3,1,'breed',1,'c1','breed','c2',0,0,2);
INSERT INTO "sums" VALUES('inception_v3',3,1,'breed',1,'c1','right','',1,1,4);
CREATE INDEX by_text ON feedback (model, text COLLATE NOCASE) WHERE text IS NOT NULL;
CREATE INDEX by_time ON feedback (answered_at);
CREATE TRIGGER added AFTER INSERT ON feedback BEGIN
    INSERT INTO sums VALUES (new.model, new.version, new.voter IS NOT NULL, new.level, json_array_length(new.breeds),
    ifnull(json_extract(new.breeds, '$[0]'), new.level), new.verdict, ifnull(new.breed, ''), ifnull(new.is_right, -1),
    ifnull(new.holds, -1), 1) ON CONFLICT DO UPDATE SET answers = answers + 1; END;
CREATE TRIGGER removed AFTER DELETE ON feedback BEGIN
    UPDATE sums SET answers = answers - 1 WHERE (model, version, is_vote, level, size, first, verdict, breed, is_right, holds) = (old.model, old.version, old.voter IS NOT NULL, old.level, json_array_length(old.breeds),
    ifnull(json_extract(old.breeds, '$[0]'), old.level), old.verdict, ifnull(old.breed, ''), ifnull(old.is_right, -1),
    ifnull(old.holds, -1)); END;
CREATE INDEX by_vote ON phones (vote) WHERE vote IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('splits',1);
COMMIT;
