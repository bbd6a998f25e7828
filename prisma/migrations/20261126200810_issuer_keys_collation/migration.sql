SET LOCAL lock_timeout = '2s';

ALTER TABLE "issuer_keys" ALTER COLUMN "issuer" TYPE TEXT COLLATE "C";
