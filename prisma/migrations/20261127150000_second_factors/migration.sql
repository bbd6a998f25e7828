SET LOCAL lock_timeout = '2s';

-- Nullable, or with a constant as default: no row is rewritten.
ALTER TABLE "users" ADD COLUMN "factor_since" TIMESTAMPTZ(3);
ALTER TABLE "known_devices" ADD COLUMN "with_factor" BOOLEAN NOT NULL DEFAULT false;

-- CreateTable
CREATE TABLE "factors" (
    "id" BIGSERIAL NOT NULL,
    "user_id" BIGINT NOT NULL,
    "type" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "last_used_at" TIMESTAMPTZ(3),
    "confirmed_at" TIMESTAMPTZ(3),
    "session_id" BIGINT,
    "key_id" TEXT NOT NULL,
    "secret" BYTEA NOT NULL,
    "last_step" BIGINT NOT NULL DEFAULT 0,

    CONSTRAINT "factors_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "recovery_codes" (
    "user_id" BIGINT NOT NULL,
    "code_hash" BYTEA NOT NULL,

    CONSTRAINT "recovery_codes_pkey" PRIMARY KEY ("user_id","code_hash")
);

-- CreateIndex
CREATE INDEX "factors_user_id_idx" ON "factors"("user_id");

-- CreateIndex
CREATE UNIQUE INDEX "factors_totp_key" ON "factors"("user_id") WHERE "type" = 'totp' AND "confirmed_at" IS NOT NULL;

-- CreateIndex
CREATE UNIQUE INDEX "factors_unconfirmed_key" ON "factors"("user_id") WHERE "confirmed_at" IS NULL;

-- AddForeignKey
ALTER TABLE "factors" ADD CONSTRAINT "factors_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "recovery_codes" ADD CONSTRAINT "recovery_codes_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Whoever deletes an account, also a replica of an earlier release, which knows nothing of these tables: the row of the
-- user stays for a while, and its factors do not.
CREATE FUNCTION "users_factors_erased"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM factors WHERE user_id = NEW.id;
    DELETE FROM recovery_codes WHERE user_id = NEW.id;
    NEW.factor_since := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER "users_factors_erased" BEFORE UPDATE OF "deleted_at" ON "users"
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL)
    EXECUTE FUNCTION "users_factors_erased"();
