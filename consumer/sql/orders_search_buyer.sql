-- One page of a buyer's orders in some activities, newest first.
select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
       created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
  from orders
 where activity_id = any($1::text[]) and user_id = $2 and status = any($3::text[])
   and orders.id < coalesce(nullif($4, '')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
 order by orders.id desc limit $5
