CREATE UNIQUE INDEX CONCURRENTLY "users_username_skeleton_c" ON "users"("username_skeleton" COLLATE "C");
