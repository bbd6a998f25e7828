SET LOCAL lock_timeout = '2s';

ALTER TABLE "users" ADD COLUMN "email_given" TEXT, ADD COLUMN "email_key" TEXT COLLATE "C";

-- Replicas of 1.0.0 write `email` and know nothing of the two: what is there belongs to the address before, and an
-- address that is not plain ASCII waits for its key. Drop this once they cannot return.
CREATE FUNCTION "users_email_written"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.email IS DISTINCT FROM OLD.email THEN
            IF NEW.email_given IS NOT DISTINCT FROM OLD.email_given THEN NEW.email_given := NULL; END IF;
            IF NEW.email_key IS NOT DISTINCT FROM OLD.email_key THEN NEW.email_key := NULL; END IF;
        END IF;
    END IF;
    IF NEW.email_key IS NULL AND (NEW.email !~ '^[ -~]*$' OR NEW.email LIKE '%xn--%') THEN
        NEW.email_key := '';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER "users_email_written" BEFORE INSERT OR UPDATE OF "email" ON "users"
    FOR EACH ROW EXECUTE FUNCTION "users_email_written"();
