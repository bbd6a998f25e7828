CREATE INDEX CONCURRENTLY "wanted_mails_kind_wanted_at_idx" ON "wanted_mails"("kind", "wanted_at") WHERE "settled_at" IS NULL;
