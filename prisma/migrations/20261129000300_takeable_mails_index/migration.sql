CREATE INDEX CONCURRENTLY "wanted_mails_takeable_idx" ON "wanted_mails"("taken_at", "wanted_at", "id") WHERE "settled_at" IS NULL;
