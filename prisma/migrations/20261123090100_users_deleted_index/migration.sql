-- Alone in its migration, and without a lock that would hold up logins and signups while it reads the table. One that was
-- cut off leaves an index that is INVALID: drop it, then have this run again (`latchkey migrate --resolve-rolled-back`).
CREATE INDEX CONCURRENTLY "users_deleted_idx" ON "users"("id") WHERE "deleted_at" IS NOT NULL;
