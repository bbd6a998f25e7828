-- Alone in its migration, and without a lock that would hold up logins and signups while it reads the table. Partial: a
-- unique index without a condition would make every change of the column wait for, and hold up, the tokens that are being
-- added to the account. One that was cut off leaves an index that is INVALID: drop it, then have this run again
-- (`latchkey migrate --resolve-rolled-back`).
CREATE UNIQUE INDEX CONCURRENTLY "users_username_skeleton_key" ON "users"("username_skeleton") WHERE "username_skeleton" IS NOT NULL;
