SET LOCAL lock_timeout = '2s';

ALTER TABLE "users" ADD COLUMN "external_id" TEXT COLLATE "C";

-- CreateTable
CREATE TABLE "wanted_mails" (
    "id" BIGSERIAL NOT NULL,
    "user_id" BIGINT NOT NULL,
    "kind" TEXT COLLATE "C" NOT NULL,
    "wanted_at" TIMESTAMPTZ(3) NOT NULL,
    "taken_at" TIMESTAMPTZ(3),
    "settled_at" TIMESTAMPTZ(3),

    CONSTRAINT "wanted_mails_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "email_verifications" (
    "user_id" BIGINT NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "email_verifications_pkey" PRIMARY KEY ("user_id")
);

-- CreateIndex
CREATE INDEX "wanted_mails_user_id_kind_idx" ON "wanted_mails"("user_id", "kind");

-- CreateIndex
CREATE INDEX "wanted_mails_waiting_idx" ON "wanted_mails"("wanted_at") WHERE "settled_at" IS NULL;

-- CreateIndex
CREATE UNIQUE INDEX "email_verifications_token_hash_key" ON "email_verifications"("token_hash");

-- AddForeignKey
ALTER TABLE "wanted_mails" ADD CONSTRAINT "wanted_mails_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "email_verifications" ADD CONSTRAINT "email_verifications_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Whoever changes, verifies or disables an account, also a replica of 1.0.0, which knows nothing of these tables: what
-- proves the address before is void, and a disabled account wants no mail. The user's row is locked before the mail's.
CREATE FUNCTION "users_mails_voided"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE wanted_mails SET settled_at = clock_timestamp()
    WHERE user_id = NEW.id AND settled_at IS NULL
        AND (kind = 'email_verification' OR NEW.disabled_at IS NOT NULL);
    DELETE FROM email_verifications WHERE user_id = NEW.id;
    RETURN NULL;
END $$;

CREATE TRIGGER "users_mails_voided" AFTER UPDATE OF "email", "email_given", "email_verified_at", "disabled_at" ON "users"
    FOR EACH ROW
    WHEN ((OLD.email, OLD.email_given, OLD.email_verified_at IS NULL, OLD.disabled_at IS NULL)
        IS DISTINCT FROM (NEW.email, NEW.email_given, NEW.email_verified_at IS NULL, NEW.disabled_at IS NULL))
    EXECUTE FUNCTION "users_mails_voided"();
