CREATE UNIQUE INDEX CONCURRENTLY "known_devices_c" ON "known_devices"("user_id", "client" COLLATE "C");
