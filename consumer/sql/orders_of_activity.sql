select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
       created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
  from orders
 where activity_id = $1 and ($2 = '' or user_id = $2) and ($3 = '' or status = $3)
   and ($4 = '' or id > nullif($4, '')::uuid)
 order by id limit $5
