SET LOCAL lock_timeout = '2s';

-- What the planner knew of these columns went with their old type.
ANALYZE "users"("username", "username_skeleton", "email");
ANALYZE "reserved_names";
ANALYZE "known_devices"("client");
ANALYZE "service_clients";
ANALYZE "client_trusts";
