SET LOCAL lock_timeout = '2s';

-- The type comes last: then each index fits its column, and PostgreSQL builds none of them again. It would build any that
-- still had the old order, while nobody could log in.
DROP INDEX "users_username_key";
DROP INDEX "users_username_skeleton_key";
DROP INDEX "users_email_key";
ALTER INDEX "users_username_c" RENAME TO "users_username_key";
ALTER INDEX "users_username_skeleton_c" RENAME TO "users_username_skeleton_key";
ALTER INDEX "users_email_c" RENAME TO "users_email_key";
ALTER TABLE "users"
    ALTER COLUMN "username" TYPE TEXT COLLATE "C",
    ALTER COLUMN "username_skeleton" TYPE TEXT COLLATE "C",
    ALTER COLUMN "email" TYPE TEXT COLLATE "C";
