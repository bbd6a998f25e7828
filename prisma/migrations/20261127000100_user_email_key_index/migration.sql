CREATE INDEX CONCURRENTLY "users_email_key_idx" ON "users"("email_key") WHERE octet_length("email") <> length("email") OR "email" LIKE '%xn--%';
