CREATE INDEX CONCURRENTLY "users_email_key_idx" ON "users"("email_key") WHERE "email_key" IS NOT NULL;
