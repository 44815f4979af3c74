select id::text, status, coalesce(reason, ''), activity_id, sku_id, user_id, quantity
  from orders where id = any($1::uuid[])
