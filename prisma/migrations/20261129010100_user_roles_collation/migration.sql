-- For the index of the next migration. No row is written.
ALTER TABLE "users" ALTER COLUMN "roles" TYPE TEXT[] COLLATE "C";
