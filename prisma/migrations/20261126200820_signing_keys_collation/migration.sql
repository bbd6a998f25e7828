SET LOCAL lock_timeout = '2s';

ALTER TABLE "signing_keys" ALTER COLUMN "kid" TYPE TEXT COLLATE "C";
