CREATE INDEX CONCURRENTLY "users_pending_idx" ON "users"("id") WHERE "pending";
