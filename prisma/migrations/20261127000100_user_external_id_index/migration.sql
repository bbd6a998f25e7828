CREATE UNIQUE INDEX CONCURRENTLY "users_external_id_key" ON "users"("external_id") WHERE "external_id" IS NOT NULL;
