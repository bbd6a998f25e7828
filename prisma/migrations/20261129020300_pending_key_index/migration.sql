CREATE INDEX CONCURRENTLY "users_pending_key_idx" ON "users"("pending_key") WHERE "pending_key" IS NOT NULL;
