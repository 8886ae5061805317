<?php
// Counts visits in redis, in its own words over its socket: no extension is needed.
$redis = stream_socket_client('unix:///run/web/redis.sock', $code, $message, 2);
if (!$redis) {
    http_response_code(503);
    exit("no redis: $message\n");
}
fwrite($redis, "INCR visits\r\n");
$visits = (int) substr(fgets($redis), 1);
printf("visit %d, answered by php worker %d\n", $visits, getmypid());
