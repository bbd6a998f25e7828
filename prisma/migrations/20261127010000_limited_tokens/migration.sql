SET LOCAL lock_timeout = '2s';

-- Two nullable columns without a default: no row is rewritten.
ALTER TABLE "tokens" ADD COLUMN "scopes" TEXT, ADD COLUMN "audience" TEXT;
