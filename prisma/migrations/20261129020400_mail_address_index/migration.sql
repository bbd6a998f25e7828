CREATE INDEX CONCURRENTLY "wanted_mails_address_key_idx" ON "wanted_mails"("address_key") WHERE "address_key" IS NOT NULL;
