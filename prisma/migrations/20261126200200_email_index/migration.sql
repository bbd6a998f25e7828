CREATE UNIQUE INDEX CONCURRENTLY "users_email_c" ON "users"("email" COLLATE "C");
