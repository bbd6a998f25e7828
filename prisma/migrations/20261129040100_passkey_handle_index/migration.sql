CREATE UNIQUE INDEX CONCURRENTLY "users_passkey_handle_key" ON "users"("passkey_handle") WHERE "passkey_handle" IS NOT NULL;
