CREATE INDEX CONCURRENTLY "users_changed_at_id_idx" ON "users"("changed_at", "id") WHERE "changed_at" IS NOT NULL;
