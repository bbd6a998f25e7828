CREATE INDEX CONCURRENTLY "users_disabled_idx" ON "users"("id") WHERE "disabled_at" IS NOT NULL AND "deleted_at" IS NULL;
