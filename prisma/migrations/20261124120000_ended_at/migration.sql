SET LOCAL lock_timeout = '2s';

-- When a token ended. Null for a session that is not revoked, and until the user gets the next token: that also writes the
-- ends of tokens that a replica of an earlier release revoked.
ALTER TABLE "tokens" ADD COLUMN "ended_at" TIMESTAMPTZ(3);
