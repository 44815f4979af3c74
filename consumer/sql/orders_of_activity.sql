-- The column is named in full: see audit_charged.
select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
       created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
  from orders
 where activity_id = $1 and ($2 = '' or user_id = $2) and ($3 = '' or status = $3)
   and id > coalesce(nullif($4, '')::uuid, '00000000-0000-0000-0000-000000000000')
 order by orders.id limit $5
