SET LOCAL lock_timeout = '2s';

-- How often the password was changed: a login that checked the password before a change opens no session after it.
-- Replicas of an earlier release change no password, and check no version.
ALTER TABLE "users" ADD COLUMN "password_version" INTEGER NOT NULL DEFAULT 0;

-- At most one reset token for each account, as a hash.
CREATE TABLE "password_resets" (
    "user_id" BIGINT NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "password_resets_pkey" PRIMARY KEY ("user_id"),
    CONSTRAINT "password_resets_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX "password_resets_token_hash_key" ON "password_resets"("token_hash");
