select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
       created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
  from orders
 where activity_id = $1 and user_id = $2 and ($3 = '' or id < nullif($3, '')::uuid)
 order by id desc limit $4
