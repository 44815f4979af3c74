select id::text, status, coalesce(reason, '') from orders where id = any($1::uuid[])
