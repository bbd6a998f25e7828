SET LOCAL lock_timeout = '2s';

ALTER TABLE "users" ADD COLUMN "email_given" TEXT, ADD COLUMN "email_key" TEXT;

-- Replicas of 1.0.0 change `email` and know nothing of the two: what they leave belongs to the address before.
CREATE FUNCTION "users_email_changed"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.email_given IS NOT DISTINCT FROM OLD.email_given THEN NEW.email_given := NULL; END IF;
    IF NEW.email_key IS NOT DISTINCT FROM OLD.email_key THEN NEW.email_key := NULL; END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER "users_email_changed" BEFORE UPDATE OF "email" ON "users"
    FOR EACH ROW WHEN (NEW.email IS DISTINCT FROM OLD.email) EXECUTE FUNCTION "users_email_changed"();
