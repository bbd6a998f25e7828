CREATE UNIQUE INDEX CONCURRENTLY "reserved_names_c" ON "reserved_names"("name_hash" COLLATE "C");
