SET LOCAL lock_timeout = '2s';

-- How often the names changed, so that an older reading never replaces a newer one in Redis, and when they last did.
-- Replicas of an earlier release change no names.
ALTER TABLE "users" ADD COLUMN "version" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "users" ADD COLUMN "changed_at" TIMESTAMPTZ(3);
