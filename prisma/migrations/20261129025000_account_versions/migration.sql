SET LOCAL lock_timeout = '2s';

-- Whatever services see of an account has a new version with each change, by which replicas order the copies in Redis and
-- tell the feed. Replicas of 1.0.0 raise it for names, roles and status alone, so an address that they change would stay
-- verified in Redis. Its name puts it behind the other triggers, which may change the address too.
CREATE FUNCTION "users_version_raised"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    NEW.changed_at := clock_timestamp();
    NEW.pending := true;
    RETURN NEW;
END $$;

CREATE TRIGGER "users_version_raised"
    BEFORE UPDATE OF "email", "email_given", "email_verified_at", "external_id", "locale", "undeliverable_at" ON "users"
    FOR EACH ROW
    WHEN (OLD.version = NEW.version
        AND (OLD.email, OLD.email_given, OLD.email_verified_at IS NULL, OLD.external_id, OLD.locale,
            OLD.undeliverable_at IS NULL)
        IS DISTINCT FROM
        (NEW.email, NEW.email_given, NEW.email_verified_at IS NULL, NEW.external_id, NEW.locale,
            NEW.undeliverable_at IS NULL))
    EXECUTE FUNCTION "users_version_raised"();
