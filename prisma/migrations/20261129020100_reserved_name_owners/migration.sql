SET LOCAL lock_timeout = '2s';

-- No foreign key: the name of an account stays reserved after its row is purged.
ALTER TABLE "reserved_names" ADD COLUMN "user_id" BIGINT;
