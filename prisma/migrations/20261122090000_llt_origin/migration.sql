SET LOCAL lock_timeout = '2s';

-- Of a long-lived token: when it expires, and the session that created it with that session's generation at the time.
-- Null on sessions, and on long-lived tokens that a release before this one created.
ALTER TABLE "tokens" ADD COLUMN "expires_at" TIMESTAMPTZ(3),
    ADD COLUMN "created_by" BIGINT,
    ADD COLUMN "created_generation" BIGINT;
