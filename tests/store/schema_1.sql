BEGIN TRANSACTION;
CREATE TABLE atoll (
	schema_version INTEGER NOT NULL
);
INSERT INTO "atoll" VALUES(1);
CREATE TABLE blobs (
	sha256 VARCHAR(64) NOT NULL, 
	size INTEGER NOT NULL, 
	is_compressed BOOLEAN NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (sha256)
);
INSERT INTO "blobs" VALUES('e0070a0c46cc5e75857cb8a6078ceeb130ca91a5c141717312433d63427ba07e',10000,1,X'789CEDC6B10D00200800B05778CEB8105D18389F3B48DAA9F9DF8D3A5D91666666666666666666666666666666666666666B37E65A7BDB');
CREATE TABLE candidates (
	run INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	is_draft BOOLEAN NOT NULL, 
	k INTEGER NOT NULL, 
	island INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	score DOUBLE, 
	verdict VARCHAR, 
	version VARCHAR, 
	decision TEXT, 
	decided INTEGER, 
	PRIMARY KEY (run, step, is_draft, k), 
	FOREIGN KEY(run) REFERENCES runs (number)
);
CREATE TABLE commands (
	run INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	data TEXT NOT NULL, 
	links TEXT, 
	PRIMARY KEY (run, number), 
	FOREIGN KEY(run) REFERENCES runs (number)
);
CREATE TABLE locks (
	"key" VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	is_locked BOOLEAN NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY ("key", number)
);
INSERT INTO "locks" VALUES('a',1,1,'["ann","holidays"]');
INSERT INTO "locks" VALUES('a',2,0,'["ann","back"]');
INSERT INTO "locks" VALUES('b',1,1,'["bob","frozen"]');
CREATE TABLE records (
	run INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	step INTEGER NOT NULL, 
	island INTEGER NOT NULL, 
	data TEXT NOT NULL, 
	links TEXT, 
	PRIMARY KEY (run, seq), 
	FOREIGN KEY(run) REFERENCES runs (number)
);
CREATE TABLE runs (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	created_at VARCHAR NOT NULL, 
	config TEXT NOT NULL, 
	links TEXT, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
INSERT INTO "runs" VALUES(1,'run','2026-11-15T11:23:38.292234+00:00','{"seed":7}',NULL);
CREATE TABLE versions (
	change INTEGER NOT NULL, 
	"key" VARCHAR NOT NULL, 
	n INTEGER NOT NULL, 
	token VARCHAR, 
	data TEXT NOT NULL, 
	links TEXT, 
	PRIMARY KEY (change), 
	UNIQUE ("key", n), 
	UNIQUE (token)
);
INSERT INTO "versions" VALUES(1,'a',1,'run/1.0','{"value":"one","reason":"a start","author":"ann"}',NULL);
INSERT INTO "versions" VALUES(2,'b',1,NULL,'{"value":null,"reason":"long","author":"bob"}','[["value","e0070a0c46cc5e75857cb8a6078ceeb130ca91a5c141717312433d63427ba07e"]]');
INSERT INTO "versions" VALUES(3,'a',2,NULL,'{"value":"two \ud800","reason":"better","author":"bob"}',NULL);
INSERT INTO "versions" VALUES(4,'a',3,NULL,'{"value":"one","reason":"worse","author":"ann"}',NULL);
CREATE INDEX candidates_by_island ON candidates (run, island, score DESC, decided, k) WHERE verdict = 'accept' AND score IS NOT NULL;
CREATE INDEX candidates_by_score ON candidates (run, score DESC, decided, k) WHERE verdict = 'accept' AND score IS NOT NULL;
CREATE INDEX candidates_by_version ON candidates (run, version) WHERE version IS NOT NULL;
COMMIT;