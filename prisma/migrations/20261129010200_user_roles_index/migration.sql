CREATE INDEX CONCURRENTLY "users_roles_idx" ON "users" USING gin ("roles") WHERE "roles" <> '{}';
