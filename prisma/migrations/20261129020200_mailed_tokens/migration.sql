SET LOCAL lock_timeout = '2s';

-- Four nullable columns without a default: no row is rewritten.
ALTER TABLE "users"
    ADD COLUMN "pending_email" TEXT,
    ADD COLUMN "pending_key" TEXT COLLATE "C",
    ADD COLUMN "locale" TEXT,
    ADD COLUMN "undeliverable_at" TIMESTAMPTZ(3);

-- CreateTable
CREATE TABLE "mailed_tokens" (
    "id" BIGSERIAL NOT NULL,
    "user_id" BIGINT NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "kind" TEXT COLLATE "C" NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "used_at" TIMESTAMPTZ(3),

    CONSTRAINT "mailed_tokens_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "mailed_tokens_token_hash_key" ON "mailed_tokens"("token_hash");

-- CreateIndex
CREATE INDEX "mailed_tokens_user_id_kind_id_idx" ON "mailed_tokens"("user_id", "kind", "id");

-- AddForeignKey
ALTER TABLE "mailed_tokens" ADD CONSTRAINT "mailed_tokens_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- It replaces two tables that no release has used.
DROP TRIGGER "users_mailed_resets_voided" ON "users";
DROP FUNCTION "users_mailed_resets_voided"();
DROP TRIGGER "users_mails_voided" ON "users";
DROP TABLE "mailed_resets", "email_verifications";

-- Whoever changes the address or the password, or disables or deletes the account, also a replica of 1.0.0, which knows
-- nothing of these columns. Its name puts it behind "users_email_written", which completes the address.
CREATE FUNCTION "users_pending_withdrawn"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_moved CONSTANT boolean := (NEW.email, NEW.email_given) IS DISTINCT FROM (OLD.email, OLD.email_given);
    is_deleted CONSTANT boolean := OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL;
BEGIN
    IF is_moved OR is_deleted OR NEW.password_version <> OLD.password_version
        OR (OLD.disabled_at IS NULL AND NEW.disabled_at IS NOT NULL) THEN
        NEW.pending_email := NULL;
        NEW.pending_key := NULL;
    END IF;
    -- Proving or marking an address that counts as verified already writes another time.
    IF is_moved OR (NEW.email_verified_at IS NOT NULL
        AND NEW.email_verified_at IS DISTINCT FROM OLD.email_verified_at) THEN
        NEW.undeliverable_at := NULL;
    END IF;
    IF is_deleted THEN
        NEW.locale := NULL;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER "users_pending_withdrawn"
    BEFORE UPDATE OF "email", "email_given", "email_verified_at", "password_version", "disabled_at", "deleted_at" ON "users"
    FOR EACH ROW
    WHEN ((OLD.email, OLD.email_given, OLD.email_verified_at, OLD.password_version, OLD.disabled_at, OLD.deleted_at)
        IS DISTINCT FROM
        (NEW.email, NEW.email_given, NEW.email_verified_at, NEW.password_version, NEW.disabled_at, NEW.deleted_at))
    EXECUTE FUNCTION "users_pending_withdrawn"();

-- What such a change voids of the account's mails. The user's row is locked before the mail's.
CREATE OR REPLACE FUNCTION "users_mails_voided"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_moved CONSTANT boolean := (NEW.email, NEW.email_given) IS DISTINCT FROM (OLD.email, OLD.email_given);
    is_judged CONSTANT boolean := (NEW.email_verified_at IS NULL) <> (OLD.email_verified_at IS NULL);
    is_barred CONSTANT boolean := (NEW.disabled_at IS NULL, NEW.deleted_at IS NULL)
        IS DISTINCT FROM (OLD.disabled_at IS NULL, OLD.deleted_at IS NULL);
    has_new_password CONSTANT boolean := NEW.password_version <> OLD.password_version;
    has_new_pending CONSTANT boolean := (NEW.pending_email, NEW.pending_key)
        IS DISTINCT FROM (OLD.pending_email, OLD.pending_key);
BEGIN
    -- A token of email_change that was used says that the present address is proved, so it outlives the next one asked for.
    DELETE FROM mailed_tokens WHERE user_id = NEW.id AND (is_moved OR is_barred
        OR (kind = 'email_verification' AND is_judged)
        OR (kind = 'email_change' AND used_at IS NULL AND has_new_pending)
        OR (kind IN ('password_reset', 'invitation') AND has_new_password));
    UPDATE wanted_mails SET settled_at = clock_timestamp()
    WHERE user_id = NEW.id AND settled_at IS NULL AND (NEW.disabled_at IS NOT NULL
        OR (kind = 'email_verification' AND (is_moved OR is_judged))
        OR (kind = 'email_change' AND has_new_pending)
        OR (kind = 'invitation' AND has_new_password));
    -- They hold addresses. What went to one still counts for its limit, or whoever deletes an account could ask again with
    -- the next: by 16 bits of a hash, which it has in common with many.
    IF OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL THEN
        DELETE FROM wanted_mails WHERE user_id = NEW.id AND (kind <> 'email_change' OR address_key IS NULL);
        UPDATE wanted_mails SET settled_at = coalesce(settled_at, clock_timestamp()), address = NULL,
            address_key = 'erased ' || (hashtext(address_key) & 65535)
        WHERE user_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER "users_mails_voided"
    AFTER UPDATE OF "email", "email_given", "email_verified_at", "password_version", "disabled_at", "deleted_at",
        "pending_email", "pending_key" ON "users"
    FOR EACH ROW
    WHEN ((OLD.email, OLD.email_given, OLD.email_verified_at IS NULL, OLD.password_version, OLD.disabled_at IS NULL,
            OLD.deleted_at IS NULL, OLD.pending_email, OLD.pending_key)
        IS DISTINCT FROM
        (NEW.email, NEW.email_given, NEW.email_verified_at IS NULL, NEW.password_version, NEW.disabled_at IS NULL,
            NEW.deleted_at IS NULL, NEW.pending_email, NEW.pending_key))
    EXECUTE FUNCTION "users_mails_voided"();
