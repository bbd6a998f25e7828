SET LOCAL lock_timeout = '2s';

-- For the index of the next migration. Reads no rows.
ALTER TABLE "users" ALTER COLUMN "roles" TYPE TEXT[] COLLATE "C";
