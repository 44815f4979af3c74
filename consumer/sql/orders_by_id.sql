select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
       created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
  from orders where id = any($1::uuid[])
