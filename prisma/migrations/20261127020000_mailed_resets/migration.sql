SET LOCAL lock_timeout = '2s';

-- CreateTable
CREATE TABLE "mailed_resets" (
    "user_id" BIGINT NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "mailed_resets_pkey" PRIMARY KEY ("user_id")
);

-- CreateIndex
CREATE UNIQUE INDEX "mailed_resets_token_hash_key" ON "mailed_resets"("token_hash");

-- AddForeignKey
ALTER TABLE "mailed_resets" ADD CONSTRAINT "mailed_resets_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Whoever changes the password or the address, or disables or deletes the account, also a replica of 1.0.0, which voids
-- only what it knows of: password_resets.
CREATE FUNCTION "users_mailed_resets_voided"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mailed_resets WHERE user_id = NEW.id;
    RETURN NULL;
END $$;

CREATE TRIGGER "users_mailed_resets_voided" AFTER UPDATE OF "password_version", "email", "disabled_at" ON "users"
    FOR EACH ROW
    WHEN ((OLD.password_version, OLD.email, OLD.disabled_at IS NULL)
        IS DISTINCT FROM (NEW.password_version, NEW.email, NEW.disabled_at IS NULL))
    EXECUTE FUNCTION "users_mailed_resets_voided"();
