SET LOCAL lock_timeout = '2s';

-- Nullable: no row is rewritten.
ALTER TABLE "users" ADD COLUMN "passkey_handle" BYTEA;

-- CreateTable
CREATE TABLE "passkeys" (
    "factor_id" BIGINT NOT NULL,
    "credential_id" BYTEA NOT NULL,
    "public_key" BYTEA NOT NULL,
    "rp_id" TEXT NOT NULL,
    "counter" BIGINT NOT NULL,
    "backup_eligible" BOOLEAN NOT NULL,
    "backed_up" BOOLEAN NOT NULL,
    "transports" TEXT[] NOT NULL DEFAULT '{}',
    "used_challenges" BYTEA[] NOT NULL DEFAULT '{}',

    CONSTRAINT "passkeys_pkey" PRIMARY KEY ("factor_id")
);

-- CreateIndex
CREATE UNIQUE INDEX "passkeys_credential_id_key" ON "passkeys"("credential_id");

-- AddForeignKey
ALTER TABLE "passkeys" ADD CONSTRAINT "passkeys_factor_id_fkey" FOREIGN KEY ("factor_id") REFERENCES "factors"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- A deleted account keeps no handle either, whichever release deletes it. Its passkeys go with its factors.
CREATE OR REPLACE FUNCTION "users_factors_erased"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM factors WHERE user_id = NEW.id;
    DELETE FROM recovery_codes WHERE user_id = NEW.id;
    NEW.factor_since := NULL;
    NEW.passkey_handle := NULL;
    RETURN NEW;
END $$;
